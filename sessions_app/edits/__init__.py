"""What a person does to a session: edit, queue, undo, restore, rewind, fork, repair."""
