"""What can be sold, and how much of it is left."""
