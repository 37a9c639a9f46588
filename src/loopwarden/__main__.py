"""`python -m loopwarden`: the same as the `loopwarden` script."""

from loopwarden.cli.main import run

if __name__ == "__main__":
    run()
