"""What is swept up after requests that never came to an end."""
