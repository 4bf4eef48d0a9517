// An agent of adk-js on a database, whose model repeats what it is told; answers the session as adk-js reads it, as JSON.
//
//   node agent.js PATH|postgresql://… SESSION create STATE     makes the session
//   node agent.js PATH|postgresql://… SESSION say TEXT DELTA   a turn, which begins with this state delta
//   node agent.js PATH|postgresql://… SESSION read
//   node agent.js PATH|postgresql://… SESSION delete
import { BaseLlm, DatabaseSessionService, LlmAgent, Runner } from "@google/adk";
import { LibSqlDriver } from "@mikro-orm/libsql";

class Parrot extends BaseLlm {
  constructor() {
    super({ model: "parrot" });
  }
  async *generateContentAsync(request) {
    const text = request.contents.at(-1).parts.at(-1).text;
    yield { content: { role: "model", parts: [{ text: `You said: ${text}` }] } };
  }
}

const [place, sessionId, command, ...given] = process.argv.slice(2);
const sessionService = new DatabaseSessionService(
  place.includes("://") ? place : { driver: LibSqlDriver, dbName: place },
);
const whose = { appName: "booking", userId: "ana", sessionId };
if (command === "create") {
  await sessionService.createSession({ ...whose, state: JSON.parse(given[0]) });
} else if (command === "say") {
  const agent = new LlmAgent({ name: "parrot", model: new Parrot(), outputKey: "last" });
  const runner = new Runner({ appName: whose.appName, agent, sessionService });
  const newMessage = { role: "user", parts: [{ text: given[0] }] };
  const turn = { userId: whose.userId, sessionId, newMessage, stateDelta: JSON.parse(given[1]) };
  for await (const _event of runner.runAsync(turn));
} else if (command === "delete") {
  await sessionService.deleteSession(whose);
}
const session = await sessionService.getSession(whose);
await sessionService.orm.close();
console.log(JSON.stringify(session ?? null));
