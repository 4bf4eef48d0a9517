"""The sessions of ADK agents: a folder for each subject.

Start at `writes/append.py`: every change of a session goes through it. Then `reads/`, which is every query. Each line
is a shelf. A folder imports from lower shelves, or sideways; folders never import each other in a circle, nor do the
modules of a folder. A door imports no other door, with two exceptions: `live` sends what `web` renders, and
`management` starts `live`. tests/test_architecture.py checks this.

9  web  api  adk  live  management         doors: pages, JSON for programs, services for agents, websockets, commands
8  privacy  batches  checks  artifacts     one user; many sessions at once; advice and rules; saved files
8  trying                                  what was recorded, once more, with the agents' code of today
7  edits  transfer  agent_view  search     what a person does; sessions as files; what a model got; finding sessions
7  running                                 agents at work: started, asked, stopped; in processes of their own
6  history                                 time travel: where each key was written, state at any event, drift
5  reads  writes  jobs                     every query; THE WRITE PATH; work that outlives a request
4  sources  http                           databases: found, opened, adopted, released; what pages and programs share
3  access                                  who asks, what they may do and see; the audit
2  models  broadcast                       ADK's tables and adkweb's own; “this session changed”, sent to all processes
1  domain                                  what a session's state and events are, and what can go wrong; pure
"""
