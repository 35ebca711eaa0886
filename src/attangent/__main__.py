"""`python -m attangent`, the same as the `attangent` command."""

from attangent.cli import main

if __name__ == "__main__":
    main()
