"""The sessions of ADK agents: a folder for each subject.

Start at `writes/append.py`: every change of a session goes through it. Then `reads/`, which is every query.
Numbers are layers. A folder imports only from smaller numbers, and inside a folder no two modules import each other
(tests/test_architecture.py checks both):

0  errors              what can go wrong, in words for the person who has to act on it
1  domain              what a session's state and events are; pure
2  models  broadcast   ADK's tables and adkweb's own; “this session moved”, told to all processes
3  access              who is asking, what they may do
4  sources             databases: found, opened, adopted, released
5  writes              THE WRITE PATH
6  reads               every query
7  history  jobs       time travel: where each key was written, state at any event, drift; work that outlives a request
8  transfer  search    sessions as files and back; the language that sessions are searched with
9  edits  agent_view  checks  artifacts   what a person does; what a model is given; is state well kept; saved files
10  http  batches  saved  what pages and programs share; one thing done to many sessions; what people keep
11  web  api  adk      pages for people, JSON for programs, services for agents
12  live               websockets
13  management         commands
"""
