"""Travels in time: tells where each key was written, its state at any event, and what drifted."""
