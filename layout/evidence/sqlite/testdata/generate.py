#!/usr/bin/env python3
"""Writes the seeds of this package's fuzz test: python3 generate.py"""

import os
import sqlite3

for name, statements in {
    "kinds.sqlite": ["CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)", "INSERT INTO t VALUES (1, 'x'), (2, printf('%0900d', 1)), (3, NULL)",
                     "CREATE TABLE u (c REAL, d BLOB)", "INSERT INTO u VALUES (1.5, x'00ff')", "CREATE VIEW v AS SELECT 1"],
    "levels.sqlite": ["CREATE TABLE t (a, b)", "INSERT INTO t SELECT value, printf('%0200d', value) FROM (WITH RECURSIVE n(value) AS "
                      "(SELECT 1 UNION ALL SELECT value+1 FROM n WHERE value<20) SELECT value FROM n)"],
    "long.sqlite": ["CREATE TABLE t (b TEXT, c INT)", "INSERT INTO t VALUES (printf('%012000d', 1), 7)"],
}.items():
    if os.path.exists(name):
        os.remove(name)
    db = sqlite3.connect(name)
    for s in ["PRAGMA page_size=512"] + statements:
        db.execute(s)
    db.commit()
    db.close()
