"""The pages: what operators see and do, in a browser."""
