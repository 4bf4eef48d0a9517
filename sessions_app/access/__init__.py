"""Finds out who asks, and decides what they may do and see."""
