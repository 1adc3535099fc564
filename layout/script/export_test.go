package script

// FieldFlags are the flags that translations write, for the tests outside the package.
func FieldFlags() []string {
	var flags []string
	for _, s := range fields {
		if s.flag != "" {
			flags = append(flags, s.flag)
		}
	}
	return flags
}
