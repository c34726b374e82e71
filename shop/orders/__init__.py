"""From a customer's wish to an order, and back."""
