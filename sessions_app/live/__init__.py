"""Shows every event to every viewer as it happens, over websockets, no matter who wrote it.

sockets.py the door: origin, sign-in, the frames of a client, and the ASGI application client.py a client that watches,
and its pending messages source_follower.py one thread for each source that someone watches: reads what is new and hands
it to the watchers room.py a session that is watched, and what each watcher has seen of it feed.py a thread that serves
everyone who watches one thing: home, or the views that people watch queue_worker.py applies queued edits, and takes
over jobs whose process died search_feeder.py keeps the index of search/ up to date source_finder.py opens databases
that appear lags.py how many watch, and how far these threads lag, for `/metrics`

reads/changes.py finds what is new in a source.
"""
