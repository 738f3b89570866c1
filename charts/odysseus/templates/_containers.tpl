{{- /* The image of one part as the lock file has it. Takes "root" and "key". */ -}}
{{- define "odysseus.lockedImage" -}}
{{- $image := index (.root.Files.Get "files/runtime-images.json" | fromJson).images .key -}}
{{- if $image.digest -}}
{{- $image.repository }}@{{ $image.digest -}}
{{- else -}}
{{- $image.repository }}:{{ $image.tag -}}
{{- end -}}
{{- end -}}

{{- /* Odysseus' image: the locked one, but for what the user chose; a tag of theirs replaces the digest. */ -}}
{{- define "odysseus.image" -}}
{{- $locked := (.Files.Get "files/runtime-images.json" | fromJson).images.odysseus -}}
{{- $chosen := .Values.instance.values.image | default dict -}}
{{- $repository := $chosen.repository | default $locked.repository -}}
{{- if and $chosen.tag (not $chosen.digest) -}}
{{- $repository }}:{{ $chosen.tag -}}
{{- else -}}
{{- $repository }}@{{ $chosen.digest | default $locked.digest -}}
{{- end -}}
{{- end -}}

{{- /* Takes "root" and "component". */ -}}
{{- define "odysseus.selector" -}}
app.kubernetes.io/name: odysseus
app.kubernetes.io/instance: {{ .root.Values.instance.name | quote }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- /* Takes "root", "component", "port" and, where the Service has a suffix, "suffix". */ -}}
{{- define "odysseus.service" -}}
apiVersion: v1
kind: Service
metadata:
  {{- include "instance.metadata" . | nindent 2 }}
spec:
  type: ClusterIP
  selector:
    {{- include "odysseus.selector" . | nindent 4 }}
  ports:
    - name: http
      port: {{ .port }}
      targetPort: http
{{- end -}}

{{- /* Takes "root", "suffix", "component" and "size". Goes with the release. */ -}}
{{- define "odysseus.claim" -}}
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  {{- include "instance.metadata" . | nindent 2 }}
spec:
  accessModes: [ReadWriteOnce]
  resources:
    requests:
      storage: {{ .size | quote }}
{{- end -}}

{{- /*
A service that Odysseus uses. Takes "root", "component" (also its suffix), "port" of the container, "user",
"args", "env", "mounts" of its claim, "volumes" and "volumeMounts" besides, "annotations" of the Pod.
*/ -}}
{{- define "odysseus.helper" -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  {{- include "instance.metadata" (dict "root" .root "component" .component "suffix" .component) | nindent 2 }}
spec:
  replicas: 1
  strategy:
    type: Recreate
  selector:
    matchLabels:
      {{- include "odysseus.selector" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "instance.labels" .root | nindent 8 }}
        app.kubernetes.io/component: {{ .component }}
      {{- with .annotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      automountServiceAccountToken: false
      # A Service of some instance must not become a setting of this container.
      enableServiceLinks: false
      securityContext:
        fsGroup: {{ .user }}
        fsGroupChangePolicy: OnRootMismatch
      containers:
        - name: {{ .component }}
          image: {{ include "odysseus.lockedImage" (dict "root" .root "key" .component) | quote }}
          {{- with .args }}
          args:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          {{- with .env }}
          env:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          ports:
            - name: http
              containerPort: {{ .port }}
          readinessProbe:
            tcpSocket:
              port: http
          resources:
            requests:
              cpu: 50m
              memory: 128Mi
            limits:
              cpu: "1"
              memory: 1Gi
          securityContext:
            {{- include "instance.restricted" . | nindent 12 }}
          volumeMounts:
            {{- range .mounts }}
            - name: data
              mountPath: {{ . }}
            {{- end }}
            - name: tmp
              mountPath: /tmp
            {{- with .volumeMounts }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
      volumes:
        - name: data
          persistentVolumeClaim:
            claimName: {{ include "instance.join" (dict "name" .root.Values.instance.name "suffix" (printf "%s-data" .component)) | quote }}
        - name: tmp
          emptyDir: {}
        {{- with .volumes }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
{{- end -}}
