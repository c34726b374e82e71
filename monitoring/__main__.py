"""`python -m monitoring`: write rules, board and reference page anew."""

from monitoring.files import FILES

for path, make in FILES.items():
    path.write_text(make(), encoding="utf-8")
