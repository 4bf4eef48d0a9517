"""Websockets: every viewer sees every event as it happens, whoever wrote it.

sockets.py           the door: origin, sign-in, the frames of a client; and the ASGI application of them all
client.py            one client that watches: what waits to be sent to it
source_follower.py   one thread for each source that somebody watches: looks what is new, reads it, hands it to the watchers
room.py              one watched session: who has seen what of it
home_feed.py         the feed of home
queue_worker.py      applies queued edits; takes over jobs whose process died
source_finder.py     opens the databases that appear

What is new in a source is asked of reads/tail.py.
"""
