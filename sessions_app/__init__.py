"""The sessions of ADK agents: files are the core, folders are the doors.

Start at `writes.append_event`: every change of a session goes through it. Then `reads`, which is every query.
Numbers are layers; a module imports only from smaller numbers (tests/test_architecture.py checks it):

0  errors  keys  streaming  private  what can go wrong; which session; answers sent while they are read; files of our own
1  values  fields  problems  units  complaints  JSON values and ADK's fields; errors of programs and of drivers; milliseconds
2  state  paging  camel  weights  scopes: split, merge, diff; pages by key; ADK's two spellings; how much of a text is read
3  events  instructions  turns  differences  the shape of an event; {key} in a template; calls beside responses; what differs
4  models  running  contents  sign_ins  recognise  ADK's tables, and adkweb's own; what is in flight; who writes tables
5  adopt  access  broadcast  guesses  commits  keeping  adkweb's columns; who may do what; SQLite's writers in line
6  online  filters             these columns are added while agents write; timelines' filters
7  sources  tokens             a file, folder or URL becomes an open database; programs' tokens
8  gathering  texts            what derived data is made of, read from a source; texts as they are stored
9  by_time                     reading a database whose events have no numbers
10  event_rows  changes  adopting  stored events as views; where each key was written; adopting while pages are read
11  edited  statistics         the edits of one source, by what was read of its events; a session in numbers
12  writes  reads  loads  merging  beginnings  THE WRITE PATH, every query; sessions whole; merged deltas; beginnings
13  written                    what events wrote, and what sessions began with, at a place
14  edits  moments  strip      what a person does to state, each as an event; state at any event; a session at a glance
15  queued  undo  rewind  forks  context  drift  edits that wait; taking back; copies; what an agent sees; what was lost
16  transfer                   stores as files and back: one file a format, and their table
17  uploads                    files that are sent to be imported: kept, looked through, brought in
18  imports                    imports in the background, with progress that outlives the page
19  web                        pages for people
20  api                        JSON for programs: ADK's own routes and ours, one OpenAPI document
21  live                       websockets: authorise, catch up, follow
22  management                 commands for terminals
23  adk                        the session services that an ADK agent plugs in; it and transfer/vertex.py need google-adk
"""
