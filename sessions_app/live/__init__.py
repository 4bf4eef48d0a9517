"""Websockets: every viewer sees every event as it happens, whoever wrote it.

sockets.py    the door: origin, sign-in, the frames of a client; and the ASGI application of them all
watcher.py    one client that watches: what waits to be sent to it
follower.py   one thread for each source that somebody watches: looks what is new, reads it, hands it to the watchers
room.py       one watched session: who has seen what of it
tail.py       which sessions of a source have new events, numbers that commit late included
lobby.py      the feed of home
worker.py     applies queued edits
searcher.py   opens the databases that appear
"""
