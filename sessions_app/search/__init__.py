"""Finds sessions: the index of words, facts and state, and the language that asks it."""
