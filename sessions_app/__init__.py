"""The sessions of ADK agents: files are the core, folders are the doors.

Start at `writes.append_event`: every change of a session goes through it. Then `reads`, which is every query.
Numbers are layers; a module imports only from smaller numbers (tests/test_architecture.py checks it):

0  errors  values  state  events      what can go wrong; JSON values; scopes; the shape of an event (pure)
1  models                             ADK's four tables as Django sees them, and adkweb's own
2  adopt  access                      adkweb's columns in an ADK database; who may do what
3  sources                            a file, folder or URL becomes an open database
4  writes  reads                      THE WRITE PATH, and every query
5  edits                              what a person does to state, each as an event
6  web  management                    pages for people; commands for terminals
"""
