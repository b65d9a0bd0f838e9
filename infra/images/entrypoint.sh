#!/bin/sh
# Spark on Kubernetes starts executors as "<image> executor", and passes the rest in environment variables.
# Anything else is a command to run as it is.
set -eu

[ "${1:-}" = executor ] || exec "$@"

spark="$(python -c 'import pyspark; print(pyspark.__path__[0])')"
set -- -Xms"$SPARK_EXECUTOR_MEMORY" -Xmx"$SPARK_EXECUTOR_MEMORY"
number=0
while option="$(printenv "SPARK_JAVA_OPT_$number")"; do
    set -- "$@" "$option"
    number=$((number + 1))
done

exec java "$@" -cp "${SPARK_CONF_DIR:-$spark/conf}:$spark/jars/*" \
    org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "$SPARK_DRIVER_URL" \
    --executor-id "$SPARK_EXECUTOR_ID" \
    --cores "$SPARK_EXECUTOR_CORES" \
    --app-id "$SPARK_APPLICATION_ID" \
    --hostname "$SPARK_EXECUTOR_POD_IP" \
    --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
    --podName "$SPARK_EXECUTOR_POD_NAME"
