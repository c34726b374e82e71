"""Points for customers who come back."""
