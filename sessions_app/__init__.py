"""The sessions of ADK agents: files are the core, folders are the doors.

Start at `writes.append_event`: every change of a session goes through it. Then `reads`, which is every query.
Numbers are layers; a module imports only from smaller numbers (tests/test_architecture.py checks it):

0  errors  keys  streaming  private  what can go wrong; which session; answers sent while they are read; files of our own
1  values  fields  problems  units  JSON values: what may be stored, when two are equal; ADK's fields; errors; milliseconds
2  state  paging  camel        scopes: split, merge, fold, diff; pages by key; ADK's two spellings of an event
3  events  instructions  turns  differences  the shape of an event; {key} in a template; calls beside responses; what differs
4  models  running  contents  sign_ins  recognise  ADK's tables, and adkweb's own; what is in flight; who writes tables
5  adopt  access  broadcast  guesses  commits  keeping  adkweb's columns; who may do what; SQLite's writers in line
6  online  filters             these columns are added while agents write; timelines' filters
7  sources  tokens             a file, folder or URL becomes an open database; programs' tokens
8  gathering                   what derived data is made of, read from a source
9  event_rows  changes  adopting  stored events as views; where each key was written; adopting while pages are read
10  writes  reads  loads  merging  THE WRITE PATH, and every query; a session whole, as its agent loads it; merged deltas
11  edits  moments  strip      what a person does to state, each as an event; state at any event; a session at a glance
12  queued  undo  rewind  forks  context  drift  edits that wait; taking back; copies; what an agent sees; what was lost
13  transfer                   stores as files and back: one file a format, and their table
14  uploads                    files that are sent to be imported: kept, looked through, brought in
15  imports                    imports in the background, with progress that outlives the page
16  web                        pages for people
17  api                        JSON for programs: ADK's own routes and ours, one OpenAPI document
18  live                       websockets: authorise, catch up, follow
19  management                 commands for terminals
20  adk                        the session services that an ADK agent plugs in; it and transfer/vertex.py need google-adk
"""
