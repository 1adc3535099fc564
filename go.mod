module github.com/moeplan/moeplan

go 1.26
