{{- /*
What the instance charts share. The file is the same in each of them, byte for byte, and a test holds it so:
Flux takes every chart from its own folder, without dependencies that somebody would have to vendor.
*/ -}}

{{- /* The application's name, from the chart's, so that no selector depends on a value. */ -}}
{{- define "instance.application" -}}
{{- .Chart.Name | trimPrefix "magicstick-" | trimSuffix "-instance" -}}
{{- end -}}

{{- /* "name" and "suffix" joined in at most 63 characters; one that is too long is cut and gets a hash of the whole. */ -}}
{{- define "instance.join" -}}
{{- $room := sub 62 (len .suffix) | int -}}
{{- if le (len .name) $room -}}
{{- .name -}}-{{- .suffix -}}
{{- else -}}
{{- regexReplaceAll "[^a-z0-9]+" .name "-" | trunc (sub $room 13 | int) | trimSuffix "-" -}}-{{- .name | sha256sum | trunc 12 -}}-{{- .suffix -}}
{{- end -}}
{{- end -}}

{{- define "instance.labels" -}}
app.kubernetes.io/name: {{ include "instance.application" . }}
app.kubernetes.io/instance: {{ .Values.instance.name | quote }}
appliance.magicstick.dev/appinstance: {{ .Values.instance.name | quote }}
{{- end -}}

{{- /*
The metadata of an object. Takes "root"; for another name than the instance's either "name", or "suffix" and
at need "base"; "component"; "annotations"; "cluster" for an object without a namespace.
*/ -}}
{{- define "instance.metadata" -}}
{{- $name := .name | default .root.Values.instance.name -}}
{{- $whole := $name -}}
{{- if .suffix -}}
{{- $base := .base | default $name -}}
{{- $whole = printf "%s-%s" $base .suffix -}}
{{- $name = include "instance.join" (dict "name" $base "suffix" .suffix) -}}
{{- end -}}
name: {{ $name | quote }}
{{- if not .cluster }}
namespace: {{ .root.Values.instance.namespace | quote }}
{{- end }}
labels:
  {{- include "instance.labels" .root | nindent 2 }}
  {{- with .component }}
  app.kubernetes.io/component: {{ . }}
  {{- end }}
{{- $annotations := .annotations | default dict }}
{{- if ne $name $whole }}
{{- $annotations = merge (dict "appliance.magicstick.dev/full-name" $whole) $annotations }}
{{- end }}
{{- with $annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* A model's id as LiteLLM knows it, from what a user wrote. */ -}}
{{- define "instance.modelId" -}}
{{- . | default "" | trimPrefix "openai/" | trimPrefix "litellm/" | default "CHANGEME_MODEL" -}}
{{- end -}}

{{- define "instance.litellmUrl" -}}
http://litellm.ai.svc.cluster.local:4000/v1
{{- end -}}

{{- /* Where the key of LiteLLM stands; the key itself is in no text that is rendered. */ -}}
{{- define "instance.credential" -}}
{{- $own := .Values.instance.litellmKey | default dict -}}
name: {{ $own.name | default "litellm-masterkey-secret" | quote }}
key: {{ $own.key | default "LITELLM_MASTER_KEY" | quote }}
{{- end -}}

{{- /* Changes with the key, so that what carries it rolls the Pods; empty where the key has no revision. */ -}}
{{- define "instance.keyRevision" -}}
{{- dig "revision" "" (.Values.instance.litellmKey | default dict) -}}
{{- end -}}

{{- define "instance.keyRevisionAnnotation" -}}
{{- with include "instance.keyRevision" . -}}
ai-appliance.io/litellm-key-revision: {{ . | quote }}
{{- end -}}
{{- end -}}

{{- define "instance.keyRevisionEnv" -}}
{{- with include "instance.keyRevision" . -}}
- name: LITELLM_KEY_REVISION
  value: {{ . | quote }}
{{- end -}}
{{- end -}}

{{- /* One rule of a NetworkPolicy: LiteLLM is in `ai`, wherever the instance is. */ -}}
{{- define "instance.litellmEgress" -}}
- to:
    - namespaceSelector:
        matchLabels:
          kubernetes.io/metadata.name: ai
      podSelector:
        matchLabels:
          app: litellm
  ports:
    - protocol: TCP
      port: 4000
{{- end -}}

{{- /* The security of a container that needs nothing of its host; "user" is who it runs as. */ -}}
{{- define "instance.restricted" -}}
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
readOnlyRootFilesystem: true
runAsNonRoot: true
runAsUser: {{ .user }}
runAsGroup: {{ .user }}
seccompProfile:
  type: RuntimeDefault
{{- end -}}
