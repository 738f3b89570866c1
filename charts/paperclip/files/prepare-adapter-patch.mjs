// Copies the sources of Paperclip's OpenCode adapter and changes two things in them for sandboxes of Kubernetes.
//
// It knows one build of Paperclip. Each text that it expects has to be there exactly once; otherwise it fails, and
// with it the Pod's start, rather than that agents run with half a patch.

import fs from "node:fs";
import path from "node:path";

const SOURCE =
  process.env.ADAPTER_SOURCE || "/app/cli/node_modules/@paperclipai/adapter-opencode-local/src/server";
const TARGET = process.env.ADAPTER_TARGET || "/patch";

// The path is one of the control plane, which no sandbox has; the instructions' text stays.
const SENTENCES = [
  [
    "`The above agent instructions were loaded from ${resolvedInstructionsFilePath}. ` +",
    "`The agent instructions above are complete; their file is not in this workspace. ` +",
  ],
  [
    "`Resolve any relative file references from ${instructionsDir}.\\n\\n`;",
    "`Resolve relative file references from the current workspace.\\n\\n`;",
  ],
];

// What is written below the provider's /tmp is not brought back; /workspace is.
const WORKSPACE = [
  [
    "const executionTarget = readAdapterExecutionTarget({",
    "const givenExecutionTarget = readAdapterExecutionTarget({",
  ],
  [
    "const executionTargetIsRemote = adapterExecutionTargetIsRemote(executionTarget);",
    [
      "const executionTarget =",
      "    givenExecutionTarget?.kind === \"remote\" &&",
      "    givenExecutionTarget.transport === \"sandbox\" &&",
      "    givenExecutionTarget.providerKey === \"kubernetes\" &&",
      "    givenExecutionTarget.remoteCwd === \"/tmp\"",
      "      ? overrideAdapterExecutionTargetRemoteCwd(givenExecutionTarget, \"/workspace\")",
      "      : givenExecutionTarget;",
      "  const executionTargetIsRemote = adapterExecutionTargetIsRemote(executionTarget);",
    ].join("\n"),
  ],
];

// Without this import the changed code would fail only when an agent runs.
const IMPORT = "  overrideAdapterExecutionTargetRemoteCwd,";

function once(text, expected) {
  const count = text.split(expected).length - 1;
  if (count !== 1) throw new Error(`expected once, found ${count} times: ${expected}`);
}

function patched(text) {
  once(text, IMPORT);
  return [...SENTENCES, ...WORKSPACE].reduce((current, [expected, replacement]) => {
    once(current, expected);
    return current.replace(expected, () => replacement);
  }, text);
}

try {
  const changed = patched(fs.readFileSync(path.join(SOURCE, "execute.ts"), "utf8"));
  // What an earlier start left is read-only and cannot be written over.
  for (const entry of fs.readdirSync(TARGET)) fs.rmSync(path.join(TARGET, entry), { recursive: true });
  fs.cpSync(SOURCE, TARGET, { recursive: true, dereference: true });
  const file = path.join(TARGET, "execute.ts");
  fs.chmodSync(file, 0o644);
  fs.writeFileSync(file, changed);
  fs.chmodSync(file, 0o444);
} catch (error) {
  console.error(`prepare-adapter-patch: ${error.message}`);
  process.exit(1);
}
