"""The sessions of ADK agents: files are the core, folders are the doors.

Start at `writes.append_event`: every change of a session goes through it. Then `reads`, which is every query.
Numbers are layers; a module imports only from smaller numbers (tests/test_architecture.py checks it):

0  errors  keys  streaming     what can go wrong; which session; answers that are sent while they are read
1  values  fields  problems    JSON values: what may be stored, when two are equal; ADK's fields; programs' errors
2  state  paging  camel        scopes: split, merge, fold, diff; pages by key; ADK's two spellings of an event
3  events  instructions  turns  differences  the shape of an event; {key} in a template; calls beside responses; what differs
4  models  running  contents   ADK's four tables, and adkweb's own; which invocation is in flight; what a model is given
5  adopt  access  broadcast  keeping  adkweb's columns; who may do what; “this session moved”; how derived data is kept
6  sources  filters  tokens  gathering  files and URLs become open databases; filters; tokens; what derived data is of
7  event_rows  changes         a session's stored events as views; where each key was written (derived data)
8  writes  reads  loads        THE WRITE PATH, and every query; a session whole, as its agent loads it
9  edits  moments  strip       what a person does to state, each as an event; state at any event; a session at a glance
10  queued  undo  rewind  forks  context  drift  edits that wait; taking back; copies; what an agent sees; what was lost
11  transfer                   stores as files and back: one file a format, and their table
12  uploads                    files that are sent to be imported: kept, looked through, brought in
13  imports                    imports in the background, with progress that outlives the page
14  web                        pages for people
15  api                        JSON for programs: ADK's own routes and ours, one OpenAPI document
16  live                       websockets: authorise, catch up, follow
17  management                 commands for terminals
18  adk                        the session services that an ADK agent plugs in; it and transfer/vertex.py need google-adk
"""
