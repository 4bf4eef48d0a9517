"""The sessions of ADK agents: files are the core, folders are the doors.

Start at `writes.append_event`: every change of a session goes through it. Then `reads`, which is every query.
Numbers are layers; a module imports only from smaller numbers (tests/test_architecture.py checks it):

0  errors  keys                what can go wrong; which session
1  values  fields              JSON values: what may be stored, when two are equal; the fields that ADK knows
2  state  paging               scopes: split, merge, fold, diff; pages by key
3  events                      the shape of an event: check it, describe it
4  models  running             ADK's four tables as Django sees them, and adkweb's own; which invocation is in flight
5  adopt  access  broadcast    adkweb's columns in an ADK database; who may do what; “this session moved”, after commit
6  sources  filters            a file, folder or URL becomes an open database; what a timeline can be filtered by
7  event_rows                  a session's stored events as views
8  writes  reads  loads        THE WRITE PATH, and every query; a session whole, as its agent loads it
9  edits                       what a person does to state, each as an event
10  queued                     edits that wait until the agent is idle
11  transfer                   stores as files and back: one file a format, and their table
12  web                        pages for people
13  live                       websockets: authorise, catch up, follow
14  management                 commands for terminals
15  adk                        the session services that an ADK agent plugs in; alone it needs google-adk
"""
