"""The customer's money: held, captured, or let go."""
