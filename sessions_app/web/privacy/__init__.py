"""Pages about what is kept of a person: to give it out, to erase it, and to keep it."""
