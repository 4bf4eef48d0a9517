"""Hides values by rules that people write, tells what a rule would hide, and proposes rules by a look at the state."""
