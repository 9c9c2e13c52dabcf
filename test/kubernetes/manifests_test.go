// Package kubernetes checks the example manifests against the types that Kubernetes and JobSet publish. It is a module of its own, so that those
// stay out of the product's.
package kubernetes

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

const folder = "../../examples/kubernetes/"

// decode reads the documents of a manifest into the types of their kinds, as the API server does with strict field validation: a field that the type has not, or
// one that is there twice, is an error, and so is one in other letters.
func decode(text string) (documents []any, err error) {
	for part := range strings.SplitSeq(text, "\n---\n") {
		var meta struct{ APIVersion, Kind string }
		if err := yaml.Unmarshal([]byte(part), &meta); err != nil {
			return nil, err
		}
		var document any
		switch meta.APIVersion + " " + meta.Kind {
		case "v1 Service":
			document = &core.Service{}
		case "batch/v1 Job":
			document = &batch.Job{}
		case "jobset.x-k8s.io/v1alpha2 JobSet":
			document = &jobset.JobSet{}
		default:
			return nil, fmt.Errorf("%s %s is no kind of these tests", meta.APIVersion, meta.Kind)
		}
		text, err := yaml.YAMLToJSONStrict([]byte(part))
		if err != nil {
			return nil, err
		}
		wrong, err := json.UnmarshalStrict(text, document)
		if err = errors.Join(append(wrong, err)...); err != nil {
			return nil, err
		}
		documents = append(documents, document)
	}
	return documents, nil
}

func read(t *testing.T, file string) (string, []any) {
	t.Helper()
	text, err := os.ReadFile(folder + file)
	if err != nil {
		t.Fatal(err)
	}
	documents, err := decode(string(text))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return string(text), documents
}

func TestIndexedJob(t *testing.T) {
	_, documents := read(t, "indexed-job.yaml")
	if len(documents) != 2 {
		t.Fatalf("%d documents, want a Service and a Job", len(documents))
	}
	service, job := documents[0].(*core.Service), documents[1].(*batch.Job)
	if service.Spec.ClusterIP != core.ClusterIPNone || !service.Spec.PublishNotReadyAddresses {
		t.Errorf("the service is not headless, or hides pods that are not ready: %+v", service.Spec)
	}
	if got := service.Spec.Selector["batch.kubernetes.io/job-name"]; got != job.Name || len(service.Spec.Selector) != 1 {
		t.Errorf("the service selects %v, not the pods of %s", service.Spec.Selector, job.Name)
	}
	if job.Spec.Template.Spec.Subdomain != service.Name {
		t.Errorf("the pods' subdomain is %q, not the service %q", job.Spec.Template.Spec.Subdomain, service.Name)
	}
	checkJob(t, &job.Spec, job.Name+"-0."+service.Name)
}

func TestJobSet(t *testing.T) {
	_, documents := read(t, "jobset.yaml")
	set := documents[0].(*jobset.JobSet)
	network := set.Spec.Network
	if network == nil || network.EnableDNSHostnames == nil || !*network.EnableDNSHostnames || network.PublishNotReadyAddresses == nil || !*network.PublishNotReadyAddresses {
		t.Fatalf("the pods have no names before they are ready: %+v", network)
	}
	if len(set.Spec.ReplicatedJobs) != 1 || set.Spec.ReplicatedJobs[0].Replicas != 1 {
		t.Fatalf("want one replicated job of one replica, since an index counts within a Job: %+v", set.Spec.ReplicatedJobs)
	}
	one := set.Spec.ReplicatedJobs[0]
	checkJob(t, &one.Template.Spec, set.Name+"-"+one.Name+"-0-0."+network.Subdomain)
}

// checkJob checks what fpmbench needs of a Job; rank0 is the name of its pod 0.
func checkJob(t *testing.T, job *batch.JobSpec, rank0 string) {
	t.Helper()
	if job.CompletionMode == nil || *job.CompletionMode != batch.IndexedCompletion || job.Completions == nil || job.Parallelism == nil || *job.Completions != *job.Parallelism {
		t.Fatalf("want an Indexed Job whose pods all run at once: %+v", job)
	}
	pod := job.Template.Spec
	if pod.RestartPolicy != core.RestartPolicyNever || len(pod.Containers) != 1 {
		t.Fatalf("want one container that is not restarted in place: %+v", pod)
	}
	container := pod.Containers[0]
	variables := map[string]string{}
	for _, v := range container.Env {
		variables[v.Name] = v.Value
	}
	for name, want := range map[string]string{"FPM_WORLD_SIZE": strconv.Itoa(int(*job.Completions)), "FPM_RENDEZVOUS": rank0 + ":29400", "FPM_TOKEN_FILE": "/token/token"} {
		if variables[name] != want {
			t.Errorf("%s is %q, want %q", name, variables[name], want)
		}
	}
	if len(container.Ports) != 1 || container.Ports[0].ContainerPort != 29400 {
		t.Errorf("ports %v", container.Ports)
	}
	mounts := map[string]string{} // path -> volume
	for _, m := range container.VolumeMounts {
		mounts[m.MountPath] = m.Name
	}
	output := ""
	for _, word := range container.Command {
		if value, ok := strings.CutPrefix(word, "--output-path="); ok {
			output = value
		}
	}
	if !slices.Contains(container.Command, "--resume="+path.Dir(output)) {
		t.Errorf("%q does not go on with %s", container.Command, path.Dir(output))
	}
	for _, v := range pod.Volumes {
		switch v.Name {
		case mounts["/results"]:
			if v.PersistentVolumeClaim == nil || !strings.HasPrefix(output, "/results/") {
				t.Errorf("the results in %q are lost with the pod: %+v", output, v)
			}
		case mounts["/token"]:
			if v.Secret == nil || v.Secret.DefaultMode == nil || *v.Secret.DefaultMode != 0o400 {
				t.Errorf("others can read the secret: %+v", v)
			}
		default:
			t.Errorf("volume %s is not mounted", v.Name)
		}
	}
	if len(pod.Volumes) != 2 {
		t.Errorf("%d volumes, want the results and the secret", len(pod.Volumes))
	}
}

// The check sees what is wrong: a field that there is not, one at the wrong place, and a value of the wrong kind.
func TestDecodingIsStrict(t *testing.T) {
	for _, c := range []struct{ file, old, new string }{
		{"indexed-job.yaml", "completionMode:", "completionmode:"},
		{"indexed-job.yaml", "  backoffLimit: 4", "  backofLimit: 4"},
		{"indexed-job.yaml", "  completions: 2", "  completions: two"},
		{"jobset.yaml", "    subdomain: fpm", "    subdomains: fpm"},
		{"jobset.yaml", "          backoffLimit: 0", "          maxRestarts: 0"},
		{"jobset.yaml", "v1alpha2", "v2"},
	} {
		text, _ := read(t, c.file)
		changed := strings.Replace(text, c.old, c.new, 1)
		if changed == text {
			t.Fatalf("%s has no %q", c.file, c.old)
		}
		if _, err := decode(changed); err == nil {
			t.Errorf("%s with %q: no error", c.file, c.new)
		}
	}
}
