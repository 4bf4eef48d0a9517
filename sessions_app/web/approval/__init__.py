"""Serves what needs a second person: the rules, and the proposals that wait."""
