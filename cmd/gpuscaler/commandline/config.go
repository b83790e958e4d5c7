package commandline

import "github.com/spf13/pflag"

// Config registers the flag --config, which has the same name and meaning in every command that reads the PlatformConfig or policies.
// Config appends the parameter more to the flag's description.
func Config(f *pflag.FlagSet, to *[]string, more string) {
	f.StringArrayVar(to, "config", nil, "file or directory with the PlatformConfig and policies of any namespace"+more+"; may be repeated")
}
