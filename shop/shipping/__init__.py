"""What the carrier carries."""
