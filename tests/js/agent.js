// An agent of adk-js on databases, whose model repeats what it is told; answers the session as adk-js reads it, as JSON.
// It reads a command a line, [PLACE, SESSION, VERB, ...], where PLACE is a path or postgresql://…:
//
//   [PLACE, SESSION, "create", STATE]      makes the session
//   [PLACE, SESSION, "say", TEXT, DELTA]   a turn, which begins with this state delta
//   [PLACE, SESSION, "read"]
//   [PLACE, SESSION, "delete"]
//
// Each command has a service of its own, which prepares the database as at an agent's start.
import { createInterface } from "node:readline";
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

async function answer(sessionService, sessionId, command, given) {
  const whose = { appName: "booking", userId: "ana", sessionId };
  if (command === "create") {
    await sessionService.createSession({ ...whose, state: given[0] });
  } else if (command === "say") {
    const agent = new LlmAgent({ name: "parrot", model: new Parrot(), outputKey: "last" });
    const runner = new Runner({ appName: whose.appName, agent, sessionService });
    const newMessage = { role: "user", parts: [{ text: given[0] }] };
    const turn = { userId: whose.userId, sessionId, newMessage, stateDelta: given[1] };
    for await (const _event of runner.runAsync(turn));
  } else if (command === "delete") {
    await sessionService.deleteSession(whose);
  }
  return (await sessionService.getSession(whose)) ?? null;
}

for await (const line of createInterface({ input: process.stdin })) {
  const [place, sessionId, command, ...given] = JSON.parse(line);
  const sessionService = new DatabaseSessionService(
    place.includes("://") ? place : { driver: LibSqlDriver, dbName: place },
  );
  let told;
  try {
    told = { session: await answer(sessionService, sessionId, command, given) };
  } catch (error) {
    told = { error: String(error.stack) };
  }
  await sessionService.orm?.close();
  console.log(`ANSWER ${JSON.stringify(told)}`); // among what adk-js logs
}
