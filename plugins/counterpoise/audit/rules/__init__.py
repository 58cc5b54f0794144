"""The rules, a file for each area."""
