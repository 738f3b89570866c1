{{- define "paperclip.defaultTag" -}}
sha-df0e5bd
{{- end -}}

{{- define "paperclip.image" -}}
{{- $image := .Values.instance.values.image | default dict -}}
{{- $repository := $image.repository | default "ghcr.io/paperclipai/paperclip" -}}
{{- if $image.digest -}}
{{- $repository }}@{{ $image.digest -}}
{{- else -}}
{{- $repository }}:{{ $image.tag | default (include "paperclip.defaultTag" .) -}}
{{- end -}}
{{- end -}}

{{- /* The model that agents run with by default; agentExecution.defaultModel wins over model. */ -}}
{{- define "paperclip.model" -}}
{{- $values := .Values.instance.values -}}
litellm/{{ include "instance.modelId" (dig "agentExecution" "defaultModel" "" $values | default $values.model) }}
{{- end -}}

{{- /* "true" while the image is the one build that the patch of the adapter knows. */ -}}
{{- define "paperclip.patched" -}}
{{- $image := .Values.instance.values.image | default dict -}}
{{- $default := include "paperclip.defaultTag" . -}}
{{- if and (not $image.digest) (eq ($image.tag | default $default) $default) -}}
true
{{- end -}}
{{- end -}}

{{- /* Changes the sources of the OpenCode adapter before Paperclip starts. */ -}}
{{- define "paperclip.adapterPatch" -}}
- name: prepare-paperclip-adapter-patch
  image: {{ include "paperclip.image" . | quote }}
  imagePullPolicy: IfNotPresent
  command:
    - node
    - --input-type=module
    - --eval
    - |
      {{- .Files.Get "files/prepare-adapter-patch.mjs" | trim | nindent 6 }}
  resources:
    requests:
      cpu: 10m
      memory: 16Mi
    limits:
      cpu: 100m
      memory: 64Mi
  securityContext:
    {{- include "instance.restricted" (dict "user" 1000) | nindent 4 }}
  volumeMounts:
    - name: paperclip-adapter-patch
      mountPath: /patch
{{- end -}}

{{- /* What opens Paperclip to the gateway once it is set up. It uses the Pod's ServiceAccount. */ -}}
{{- define "paperclip.proxy" -}}
- name: gateway-loopback-proxy
  image: {{ include "paperclip.image" . | quote }}
  imagePullPolicy: IfNotPresent
  command:
    - node
    - --input-type=module
    - --eval
    - |
      {{- .Files.Get "files/gateway-loopback-proxy.mjs" | trim | nindent 6 }}
  env:
    - name: POD_IP
      valueFrom:
        fieldRef:
          fieldPath: status.podIP
    - name: PAPERCLIP_DEFAULT_OPENCODE_MODEL
      value: {{ include "paperclip.model" . | quote }}
    - name: PAPERCLIP_INSTANCE_NAME
      value: {{ .Values.instance.name | quote }}
    - name: PAPERCLIP_SANDBOX_CLEANUP_GRACE_SECONDS
      value: "60"
  readinessProbe:
    tcpSocket:
      port: 3100
    periodSeconds: 5
  resources:
    requests:
      cpu: 10m
      memory: 32Mi
    limits:
      cpu: 100m
      memory: 128Mi
  securityContext:
    {{- include "instance.restricted" (dict "user" 1000) | nindent 4 }}
{{- end -}}

{{- /* A variable from the model catalog, absent while the catalog is. Takes "name" and "key". */ -}}
{{- define "paperclip.catalogEnv" -}}
- name: {{ .name }}
  valueFrom:
    configMapKeyRef:
      name: ai-model-catalog
      key: {{ .key }}
      optional: true
{{- end -}}
