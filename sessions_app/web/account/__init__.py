"""Signing in and out, and the tokens of programs."""
