"""Asks DuckDB and Spark the questions of the fleet page, and prints both answers as JSON.

ask.py FOLDER QUERIES: the files of Parquet, and a JSON object of queries by their names. Spark has two workers, of which one is
killed while they work.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time


def duckdb_answers(folder, queries):
    import duckdb

    connection = duckdb.connect()
    connection.sql("CREATE VIEW samples AS SELECT * FROM read_parquet('%s/**/*.parquet')" % folder)
    return {name: [list(row) for row in connection.sql(text).fetchall()] for name, text in queries.items()}


def executors():
    found = subprocess.run(["pgrep", "-f", "CoarseGrainedExecutorBackend"], capture_output=True, text=True).stdout
    return [int(line) for line in found.split()]


def spark_answers(folder, queries):
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local-cluster[2,1,1024]").appName("fleet")
    settings = {
        "spark.ui.enabled": "false",
        "spark.executor.memory": "700m",
        "spark.sql.shuffle.partitions": "8",
        # Each file is a task, so there's something left to do when a worker is gone.
        "spark.sql.files.maxPartitionBytes": "1000000",
        "spark.sql.files.openCostInBytes": "1000000",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    files = spark.read.option("recursiveFileLookup", "true").parquet(folder)
    files.createOrReplaceTempView("samples")
    while len(executors()) < 2:
        time.sleep(0.1)
    killed = []

    def kill():
        tracker = spark.sparkContext.statusTracker()
        while not any(tracker.getStageInfo(stage).numCompletedTasks > 10 for stage in tracker.getActiveStageIds()):
            time.sleep(0.01)
        killed.append(executors()[0])
        os.kill(killed[0], signal.SIGKILL)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    answers = {name: [list(row) for row in spark.sql(text).collect()] for name, text in queries.items()}
    killer.join(1)
    spark.stop()
    return answers, killed


folder, queries = sys.argv[1], json.loads(sys.argv[2])
duckdb, (spark, killed) = duckdb_answers(folder, queries), spark_answers(folder, queries)
print(json.dumps({"duckdb": duckdb, "spark": spark, "killed": killed}))
