// Opens Paperclip to the gateway, once it is set up.
//
// A `local_trusted` Paperclip listens on loopback alone. This process listens on the Pod's own address, on the
// same port, and pipes every connection to loopback; but only after Paperclip answers and its sandbox plugin is
// ready, so the Pod takes requests only once agents can run. From then on it keeps the agents' settings in order
// and removes Sandboxes of runs that have ended. What cannot be read is left alone, and namespaces always are.

import fs from "node:fs";
import http from "node:http";
import https from "node:https";
import net from "node:net";

const env = process.env;
const PORT = Number(env.PAPERCLIP_GATEWAY_PORT || 3100);
const PAPERCLIP_URL = `http://127.0.0.1:${PORT}`;
const KUBERNETES_URL =
  env.KUBERNETES_API_URL || `https://${env.KUBERNETES_SERVICE_HOST}:${env.KUBERNETES_SERVICE_PORT}`;
const SERVICE_ACCOUNT = env.KUBERNETES_SERVICE_ACCOUNT || "/var/run/secrets/kubernetes.io/serviceaccount";
const DEFAULT_MODEL = env.PAPERCLIP_DEFAULT_OPENCODE_MODEL || "";
const INSTANCE = env.PAPERCLIP_INSTANCE_NAME || "";
const GRACE_MS = 1000 * Number(env.PAPERCLIP_SANDBOX_CLEANUP_GRACE_SECONDS || 60);
const RETRY_MS = Number(env.PAPERCLIP_BOOTSTRAP_RETRY_MS || 1000);
const RECONCILE_MS = Number(env.PAPERCLIP_RECONCILE_MS || 30000);
const INSTALL_PAUSE_MS = Number(env.PAPERCLIP_INSTALL_PAUSE_MS || 5000);

const REQUEST_TIMEOUT_MS = 5000;
const INSTALL_TIMEOUT_MS = 120000;
const LONGEST_INSTALL_PAUSE_MS = 300000;
const PAPERCLIP_LIMIT = 1 << 20;
const KUBERNETES_LIMIT = 4 << 20;
const ERROR_BODY_LIMIT = 500;

const PLUGIN_KEY = "paperclip.kubernetes-sandbox-provider";
const PLUGIN_PACKAGE = "@paperclipai/plugin-kubernetes";
const PLUGIN_VERSION = "2026.707.0";
const ADAPTER = "opencode_local";
const SKILL = "paperclipai/paperclip/paperclip";
const MARKER_START = "[MagicStick Paperclip heartbeat";
const HEARTBEAT =
  "[MagicStick Paperclip heartbeat v2] Before any work, load the skill \"paperclip\" with the skill tool. " +
  "Then use bash, and build the address of every request from $PAPERCLIP_API_URL; never write a localhost port " +
  "yourself. Follow the heartbeat procedure of the skill. Create task documents through the API. Set a final " +
  "disposition of the task before you leave.";

const TERMINAL = new Set(["succeeded", "completed", "failed", "cancelled", "interrupted", "timed_out", "timeout"]);
const DNS_LABEL = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
const COMPANY_ID = /^[a-z0-9-]+$/;

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const log = (text) => console.log(`gateway-loopback-proxy: ${text}`);
const reason = (error) => (error instanceof Error ? error.message : String(error));
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

// ---- Requests ----

// Resolves to {status, text}; rejects when there is no whole answer in time, or it is larger than the limit.
function request(url, { method = "GET", body, headers = {}, timeoutMs, limit, ca }) {
  return new Promise((resolve, reject) => {
    const payload = body === undefined ? undefined : JSON.stringify(body);
    // Node.js gives the body of a DELETE no length by itself, and the server would read it as the next request.
    const length = payload && Buffer.byteLength(payload);
    const content = payload && { "content-type": "application/json", "content-length": length };
    const client = url.startsWith("https:") ? https : http;
    const options = { method, ca, signal: AbortSignal.timeout(timeoutMs), headers: { ...content, ...headers } };
    const sent = client.request(url, options, (response) => {
      const chunks = [];
      let size = 0;
      response.on("error", reject);
      response.on("data", (chunk) => {
        size += chunk.length;
        chunks.push(chunk);
        if (size > limit) sent.destroy(new Error(`the answer is larger than ${limit} bytes`));
      });
      response.on("end", () => {
        resolve({ status: response.statusCode, text: Buffer.concat(chunks).toString("utf8") });
      });
    });
    sent.on("error", reject);
    sent.end(payload);
  });
}

function parsed(what, answer) {
  if (answer.status < 200 || answer.status > 299) {
    throw new Error(`${what}: HTTP ${answer.status}: ${answer.text.slice(0, ERROR_BODY_LIMIT)}`);
  }
  if (!answer.text) return null;
  try {
    return JSON.parse(answer.text);
  } catch {
    throw new Error(`${what}: the answer is no JSON`);
  }
}

async function paperclip(method, path, body, timeoutMs = REQUEST_TIMEOUT_MS) {
  const options = { method, body, timeoutMs, limit: PAPERCLIP_LIMIT };
  return parsed(`${method} ${path}`, await request(`${PAPERCLIP_URL}${path}`, options));
}

// Null when the object or its kind is absent. The token is read anew, since it is exchanged while we run.
async function kubernetes(method, path, body) {
  const answer = await request(`${KUBERNETES_URL}${path}`, {
    method,
    body,
    headers: { authorization: `Bearer ${fs.readFileSync(`${SERVICE_ACCOUNT}/token`, "utf8").trim()}` },
    ca: fs.readFileSync(`${SERVICE_ACCOUNT}/ca.crt`),
    timeoutMs: REQUEST_TIMEOUT_MS,
    limit: KUBERNETES_LIMIT,
  });
  return answer.status === 404 ? null : parsed(`${method} ${path}`, answer);
}

// Paperclip answers with a list, or with an object that holds it under one of these keys. Anything else is an
// error: what we do not understand must not look like an empty list.
function listed(what, answer, ...keys) {
  const found = [answer, ...["items", ...keys].map((key) => answer?.[key])].find(Array.isArray);
  if (!found) throw new Error(`${what}: no list in the answer`);
  return found.filter(isObject);
}

// ---- The plugin that runs agents in Sandboxes ----

const install = { notBefore: 0, pauseMs: INSTALL_PAUSE_MS };

async function installPlugin(why) {
  if (Date.now() < install.notBefore) throw new Error(`the plugin is ${why}; installing it is tried again later`);
  try {
    const wanted = { packageName: PLUGIN_PACKAGE, version: PLUGIN_VERSION, isLocalPath: false };
    await paperclip("POST", "/api/plugins/install", wanted, INSTALL_TIMEOUT_MS);
  } finally {
    install.notBefore = Date.now() + install.pauseMs;
    install.pauseMs = Math.min(install.pauseMs * 2, LONGEST_INSTALL_PAUSE_MS);
  }
}

async function findPlugin() {
  const plugins = listed("plugins", await paperclip("GET", "/api/plugins"), "plugins");
  return plugins.find((plugin) => [plugin.pluginKey, plugin.key].includes(PLUGIN_KEY));
}

// Returns only when the plugin is ready; package and record persist, so that later starts install nothing.
async function ensurePlugin() {
  const before = await findPlugin();
  const status = before?.status ?? "missing";
  if (["missing", "error", "incompatible"].includes(status)) await installPlugin(status);
  if (status === "disabled") {
    await paperclip("POST", `/api/plugins/${encodeURIComponent(before.id)}/enable`, {});
  }
  const now = status === "ready" ? status : (await findPlugin())?.status;
  if (now !== "ready") throw new Error(`the plugin ${PLUGIN_KEY} is ${now ?? "missing"}, not ready`);
}

// ---- Agents ----

async function companyIds() {
  const found = listed("companies", await paperclip("GET", "/api/companies"), "companies");
  return found.map((company) => company.id).filter((id) => typeof id === "string" && id);
}

// A prompt with our paragraph first, in its newest version; whatever else it says stays as it is written.
function withHeartbeat(prompt) {
  const pieces = prompt.split(/(\n\s*\n)/); // paragraphs, and between them what separates them
  const ours = (index) => pieces[index - (index % 2)].trim().startsWith(MARKER_START);
  const others = pieces.filter((_, index) => !ours(index)).join("").trimStart();
  return others ? `${HEARTBEAT}\n\n${others}` : HEARTBEAT;
}

// What of an agent has to change, as the body of a PATCH; null when it is as it should be. The body holds changed
// keys alone: Paperclip merges them, and what it shows of the others may be redacted.
function agentPatch(agent, isDisabled) {
  const patch = {};
  const config = isObject(agent.adapterConfig) ? agent.adapterConfig : {};
  const changed = {};
  let adapter = agent.adapterType;
  if (agent.metadata?.paperclipBuiltInAgent?.key && isDisabled(adapter) && !config.model) {
    adapter = ADAPTER;
    patch.adapterType = ADAPTER;
    changed.model = DEFAULT_MODEL;
  }
  if (adapter !== ADAPTER) return null;
  const sync = isObject(config.paperclipSkillSync) ? config.paperclipSkillSync : {};
  const skills = Array.isArray(sync.desiredSkills) ? sync.desiredSkills : [];
  if (!skills.includes(SKILL)) changed.paperclipSkillSync = { ...sync, desiredSkills: [...skills, SKILL] };
  const before = typeof config.bootstrapPromptTemplate === "string" ? config.bootstrapPromptTemplate : "";
  const after = withHeartbeat(before);
  if (after !== before) changed.bootstrapPromptTemplate = after;
  if (Object.keys(changed).length > 0) patch.adapterConfig = changed;
  return Object.keys(patch).length > 0 ? patch : null;
}

async function reconcileAgents() {
  if (!DEFAULT_MODEL || DEFAULT_MODEL.includes("CHANGEME")) return;
  const adapters = listed("adapters", await paperclip("GET", "/api/adapters"), "adapters");
  const disabled = (adapter) => adapter.disabled === true || adapter.enabled === false;
  if (!adapters.some((adapter) => adapter.type === ADAPTER && !disabled(adapter))) return;
  const isDisabled = (type) => adapters.some((adapter) => adapter.type === type && disabled(adapter));
  for (const company of await companyIds()) {
    const path = `/api/companies/${encodeURIComponent(company)}/agents`;
    for (const agent of listed("agents", await paperclip("GET", path), "agents")) {
      const patch = agentPatch(agent, isDisabled);
      if (patch) await paperclip("PATCH", `/api/agents/${encodeURIComponent(agent.id)}`, patch);
    }
  }
}

// ---- Sandboxes of runs that have ended ----

function endedRuns(runs) {
  const latest = Date.now() - GRACE_MS;
  const ended = runs.filter((run) => TERMINAL.has(run.status) && Date.parse(run.finishedAt) <= latest);
  return new Set(ended.map((run) => run.id));
}

async function cleanCompany(id) {
  const sandboxes = `/apis/agents.x-k8s.io/v1alpha1/namespaces/${INSTANCE}-${id}/sandboxes`;
  const selector = encodeURIComponent("paperclip.io/managed-by=paperclip-k8s-plugin");
  const found = await kubernetes("GET", `${sandboxes}?labelSelector=${selector}`);
  if (found === null) return;
  const path = `/api/companies/${id}/heartbeat-runs`;
  const ended = endedRuns(listed("runs", await paperclip("GET", path), "runs"));
  for (const { metadata } of listed("sandboxes", found)) {
    if (metadata.deletionTimestamp || !ended.has(metadata.labels?.["paperclip.io/run-id"])) continue;
    const preconditions = { uid: metadata.uid };
    await kubernetes("DELETE", `${sandboxes}/${encodeURIComponent(metadata.name)}`, { preconditions });
    log(`removed the Sandbox ${metadata.namespace}/${metadata.name} of a run that has ended`);
  }
}

async function cleanSandboxes() {
  if (!DNS_LABEL.test(INSTANCE)) return;
  for (const company of (await companyIds()).filter((id) => COMPANY_ID.test(id))) {
    try {
      await cleanCompany(company);
    } catch (error) {
      log(`sandboxes: ${reason(error)}`); // of this company alone; the others are cleaned all the same
    }
  }
}

// ---- The proxy ----

// Either side's end or failure ends the other; nothing is buffered beyond what the sockets hold.
function connect(inbound) {
  const outbound = net.connect(PORT, "127.0.0.1");
  inbound.on("error", () => outbound.destroy());
  outbound.on("error", () => inbound.destroy());
  inbound.on("close", () => outbound.destroy());
  outbound.on("close", () => inbound.destroy());
  inbound.pipe(outbound);
  outbound.pipe(inbound);
}

// The Pod's address and no other: Paperclip has the same port on loopback.
function listen() {
  const server = net.createServer({ allowHalfOpen: true }, connect);
  server.on("error", (error) => {
    log(`cannot listen: ${reason(error)}`);
    process.exit(1);
  });
  server.listen(PORT, env.POD_IP, () => log(`listening on port ${PORT}`));
}

// ---- Life ----

// Calls `work`, and logs its failure; while one call runs, another is skipped.
function guarded(what, work) {
  let running = false;
  return async () => {
    if (running) return;
    running = true;
    try {
      await work();
    } catch (error) {
      log(`${what}: ${reason(error)}`);
    } finally {
      running = false;
    }
  };
}

const agentsInOrder = guarded("agents", reconcileAgents);
const sandboxesClean = guarded("sandboxes", cleanSandboxes);

async function untilSetUp() {
  let told = "";
  for (;;) {
    try {
      await paperclip("GET", "/api/health");
      await ensurePlugin();
      await reconcileAgents();
      return;
    } catch (error) {
      const text = reason(error);
      if (text !== told) log(`not set up yet: ${text}`);
      told = text;
      await pause(RETRY_MS);
    }
  }
}

process.on("SIGTERM", () => process.exit(0));

if (!net.isIP(env.POD_IP || "")) {
  log("POD_IP must be the Pod's address");
  process.exit(1);
}
await untilSetUp();
await sandboxesClean();
listen();
setInterval(agentsInOrder, RECONCILE_MS);
setInterval(sandboxesClean, RECONCILE_MS);
