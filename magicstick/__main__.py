"""`python -m magicstick`."""

from magicstick.cli import main

if __name__ == "__main__":
    main()
