"""Finds out who is asking, and decides what they may do and see."""
