"""Makes ``python -m gradsmith`` the same as the ``gradsmith`` command."""

from gradsmith.cli import main

if __name__ == "__main__":
    main(prog_name="gradsmith")
