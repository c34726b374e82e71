"""What is made from the table of metrics: alert rules, a board, and the reference page. `python -m monitoring` writes all three anew."""
