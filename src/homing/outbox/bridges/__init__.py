"""One module per driver. Each is imported when the first connection of its driver is recorded with, and not before."""
