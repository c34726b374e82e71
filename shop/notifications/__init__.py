"""What the customer reads."""
