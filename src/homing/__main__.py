"""`python -m homing`: the same as the `homing` command."""

from homing.cli.main import run

if __name__ == "__main__":
    run()
