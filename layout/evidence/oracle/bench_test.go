package oracle

import (
	"database/sql"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/moeplan/moeplan/layout/evidence"
)

// BenchmarkReadExport reads an export of 1 GB: a million kernels, every third communication that only its range tells, three calls and
// a range for each, and calls of the operating system that nobody asks for. Writing it takes a minute:
//
//	go test ./layout/evidence/oracle -run '^$' -bench ReadExport -benchtime 1x
func BenchmarkReadExport(b *testing.B) {
	const series = "FROM (WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i+1 FROM n WHERE i<999999) SELECT i FROM n)"
	name := filepath.Join(b.TempDir(), "big.sqlite")
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(name)+"?_pragma=synchronous(0)&_pragma=journal_mode(off)")
	if err != nil {
		b.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	for _, s := range []string{createStrings, names, createKernels, createCalls, createNVTX,
		"CREATE TABLE OSRT_API (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER, callchain TEXT)",
		"BEGIN",
		"INSERT INTO StringIds SELECT 100+i, printf('void kernel_%d<%0100d>(x)', i, i) " + series,
		"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT 1000000000+i*1000, 1000000900+i*1000, 0, 7, 3*i+3, 1677721600, CASE WHEN i%3=0 THEN 2 ELSE 100+i%5000 END, 1, NULL " + series,
		"INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME SELECT 999990000+i*1000+j*100, 999990050+i*1000+j*100, 1677721701, 3*i+1+j, 4 " + series + ", (SELECT 0 AS j UNION SELECT 1 UNION SELECT 2)",
		"INSERT INTO NVTX_EVENTS SELECT 999990150+i*1000, 999990400+i*1000, 59, CASE WHEN i%2 THEN 'moe_dispatch' ELSE NULL END, 1677721701, NULL, 6 " + series,
		"INSERT INTO OSRT_API SELECT i, i+1, 27, 1677721701, i, 4, printf('%0600d', i) " + series,
		"COMMIT"} {
		if _, err := db.Exec(s); err != nil {
			b.Fatalf("%s: %v", s, err)
		}
	}
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(info.Size())
	b.ReportAllocs()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for b.Loop() {
		trace, err := evidence.ReadExport("big", f, info.Size())
		if err != nil || len(trace.Devices) != 1 || trace.Devices[0].ComputeKernels != 666666 {
			b.Fatalf("%+v %v", trace, err)
		}
	}
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapSys-before.HeapSys)/(1<<20), "heap-MiB")
}
