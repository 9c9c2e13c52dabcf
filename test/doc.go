// Package test runs the programs end to end: sessions as a user types them (testdata/script), worlds of several
// sizes, interrupted runs and full disks. The programs under test are built once, from this tree.
package test
