"""The sessions of ADK agents: a folder for each subject.

Start at `writes/append.py`: every change of a session goes through it. Then `reads/`, which is every query.
Numbers are layers. A folder imports only from smaller numbers, and inside a folder no two modules import each other
(tests/test_architecture.py checks both):

1  domain              what a session's state and events are, and what can go wrong; pure
2  models  broadcast   ADK's tables and adkweb's own; “this session moved”, sent to all processes
4  access              who is asking, what they may do and see; the audit: what was done that is no event of a session
5  sources             databases: found, opened, adopted, released; adkweb's own as a whole
6  writes              THE WRITE PATH
7  reads               every query
8  history  jobs       time travel: where each key was written, state at any event, drift; work that outlives a request
9  transfer  search    sessions as files and back; the language that sessions are searched with, and what is kept of it
10  edits  agent_view  checks  artifacts   what a person does; what a model is given; is state well kept; saved files
11  http  batches  privacy  shared by doors; many sessions at once; one user
12  web  api  adk      pages for people, JSON for programs, services for agents
13  live               websockets
14  management         commands
"""
