"""Finds, opens, adopts and releases databases."""
